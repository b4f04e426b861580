"""`python -m app` is `kvtheater`."""

from app.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
