print("func.func @f() { return }")
