"""What people mail: every format that is read, one module each, and the one picture that they make together."""
