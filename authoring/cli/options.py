"""What commands take alike, on the command line."""

from __future__ import annotations

import click

FILE = click.argument("file", metavar="FILE")
PATHS = click.argument("paths", metavar="PATH...", nargs=-1, required=True)
NAME = click.argument("name", metavar="[NAME]", required=False)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SHAPES = click.option(
    "--shape", "-s", "shapes", multiple=True, metavar="PARAMETER=SIZES", help="As x=64,512 or y=64:int64."
)
TEXTS = click.option("--arg", "-a", "texts", multiple=True, metavar="VALUE", help="An argument, as `run` takes it.")
DTYPE = click.option("--dtype", default="float32", show_default=True, help="Of floating tensors.")
