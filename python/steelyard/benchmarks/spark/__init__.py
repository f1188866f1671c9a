"""SparkBench: a Spark SQL query over generated tables, in three stages."""
