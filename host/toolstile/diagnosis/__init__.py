"""What is wrong where Toolstile runs, and how to mend it: what `toolstile doctor` tells."""
