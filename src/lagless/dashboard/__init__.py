"""The dashboard: what the group is doing, for people to see. It reads and changes nothing.

Pure files compute what is shown: `story` keeps what was heard, `view` makes a snapshot of it,
`whatif` tries other settings on it, `charts` and `tables` draw it. `app` and what it imports serve
the pages; NiceGUI enters there and nowhere else. Where messages come from is a `Source`, handed in.
"""
