"""The entry point of `python -m steer_trl.cli`, which launchers start."""

from steer_trl.cli.main import main

if __name__ == "__main__":
    main()
