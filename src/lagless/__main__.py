"""`python -m lagless` is the command `lagless`."""

from lagless.cli.app import main

if __name__ == "__main__":
    main()
