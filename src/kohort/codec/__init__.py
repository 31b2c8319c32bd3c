"""Messages and records are declared as schemas; readers and writers are compiled from the declarations."""
