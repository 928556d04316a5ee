"""The dashboard: a web page that shows what the group is doing. It only reads.

`view` turns what `observations` has collected into a `snapshot`; `text`, `bins`, `charts` and
`markup` say and draw what is in it; `whatif` tries other settings on it, and `target_costs` shows
what other targets for the delay would cost. These files are pure. `costing` has that computed in a
thread, by a replay that the command line hands in. `server`, `page` and `panels` put all of it on
the screen: NiceGUI enters there and nowhere else. No Kafka client enters at all: messages come from
an `observations.Source`, which `wiring` provides.
"""
