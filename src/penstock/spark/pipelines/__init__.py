"""Jobs on Spark; ``registry`` lists them."""
