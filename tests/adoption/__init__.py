"""`lagless adopt`: what it measures of a group that lagless does not run, and what it concludes."""
