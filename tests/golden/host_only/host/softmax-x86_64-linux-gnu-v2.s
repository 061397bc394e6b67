# code for a CPU
