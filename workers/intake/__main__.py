"""``python -m workers.intake``: the intake's process."""

from workers import errors_in_one_line

if __name__ == "__main__":
    with errors_in_one_line("intake"):
        from workers.intake.consumer import main  # its import reads the settings

        main()
