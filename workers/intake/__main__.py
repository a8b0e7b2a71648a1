"""``python -m workers.intake``: the intake's process."""

from workers.intake.consumer import main

if __name__ == "__main__":
    main()
