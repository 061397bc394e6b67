module {
  transform.named_sequense @__transform_main() {}
}
