"""When does Dr help? Its gain over many datasets, held against K and other numbers."""
