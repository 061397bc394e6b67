# code for x86_64-linux-gnu
