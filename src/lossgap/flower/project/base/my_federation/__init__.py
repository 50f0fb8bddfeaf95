"""What runs at the server and at the sites."""
