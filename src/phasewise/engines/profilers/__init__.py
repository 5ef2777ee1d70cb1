"""The profilers that engines bring along: how they are started and stopped, where they write, when a file is whole."""
