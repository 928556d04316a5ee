"""Input from people who mean harm or make mistakes: nothing crashes, hangs or is believed."""
