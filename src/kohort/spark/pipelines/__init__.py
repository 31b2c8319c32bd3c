"""Standing jobs made of the source and the sink. The modules without Spark in them need no JVM."""
