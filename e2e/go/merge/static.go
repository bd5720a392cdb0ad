package merge

// putStatic describes shards in the configuration.
func putStatic(put func(key string, value any), shards []*Fake) {
	list := []any{}
	for _, f := range shards {
		one := map[string]any{"name": f.Name, "uid": f.UID, "url": f.URL()}
		if f.Labels != nil {
			one["labels"] = f.Labels
		}
		list = append(list, one)
	}
	put("topology.shards", list)
}
