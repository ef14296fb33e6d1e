"""`python -m gradscript`: the same as the `gradscript` command."""

from .authoring.cli.main import main

if __name__ == "__main__":
    main()
