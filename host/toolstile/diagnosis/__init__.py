"""What is wrong where Toolyard runs, and how to mend it: what `toolyard doctor` tells."""
