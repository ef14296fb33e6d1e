"""Running compiled functions on data: conversion of arrays, plans, the interpreter, and the objects users hold."""

from .plans import composites as composites
from .settings import random as random
