"""Running compiled functions on data: conversion of arrays, plans, the interpreter, and the objects users hold."""

from . import composites as composites
from . import random as random
