"""The command line, run as a person runs it: in processes of its own, through pipes and on terminals."""
