"""The command for people who write an app: everything at once, on this machine."""
