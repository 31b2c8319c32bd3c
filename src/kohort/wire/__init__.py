"""The wire format: message declarations, their codec, headers, frames, and the table of APIs. No I/O."""
