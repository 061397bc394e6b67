# code for aarch64-linux-gnu
