"""The recoveries of docs/guides/recover.md, carried out by the commands of that page."""
