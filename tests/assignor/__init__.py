"""The assignor in `assignor/`, on a real broker, with members that lagless did not write."""
