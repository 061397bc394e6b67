// café
func.func @f() { return }
