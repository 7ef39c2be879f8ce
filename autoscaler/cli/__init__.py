"""The command line: one subcommand after the other, each composed of what lies elsewhere.

Lives here: arguments, exit codes, and what ``validate`` looks at besides the settings (``preflight``). ``python -m
autoscaler.cli`` and the installed ``autoscaler`` both run ``main``. May not: decide. May import everything, inside subcommands.
"""
