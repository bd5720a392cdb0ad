package merge

// putStatic describes shards in the configuration.
func putStatic(put func(key string, value any), shards []*Fake) {
	list := []any{}
	for _, f := range shards {
		list = append(list, map[string]any{"name": f.Name, "uid": f.UID, "url": f.URL()})
	}
	put("topology.shards", list)
}
