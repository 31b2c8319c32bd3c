"""How a client enters a secured cluster: settings under all their names, TLS, SASL, tokens."""
