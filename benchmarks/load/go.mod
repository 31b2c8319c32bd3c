module kohort/load

go 1.25
