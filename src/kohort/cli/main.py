"""Where the ``kohort`` command begins.

``serve`` and ``--version`` are recognised before anything is imported: the framework of the other commands
takes longer to load than a broker takes to start. Only the help of ``serve`` comes from that framework.
"""

import sys

_INTERRUPTED = 130


def main() -> None:
    try:
        _run()
    except KeyboardInterrupt:  # before a command has begun to listen for it: while it is loaded
        sys.exit(_INTERRUPTED)


def _run() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"] and not {"--help", "-h"} & set(arguments):
        from kohort.cli.serve.run import serve

        sys.exit(serve(arguments[1:]))
    if arguments == ["--version"]:
        from kohort import __version__

        print(f"kohort {__version__}")
        return
    from kohort.cli.app import run

    run()


if __name__ == "__main__":
    main()
