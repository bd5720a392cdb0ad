package main

const bigSchema = `{"type":"object","properties":{
"i":{"type":"integer"},"j":{"type":"integer"},"d":{"type":"number"},"b":{"type":"boolean"},"c":{"type":"boolean"},
"s":{"type":"string","maxLength":20},"t":{"type":"string","maxLength":10},"u":{"type":"string"},
"e":{"type":"string","enum":["one","three"]},
"li":{"type":"array","maxItems":10,"items":{"type":"integer"}},
"ls":{"type":"array","maxItems":5,"items":{"type":"string","maxLength":8}},
"lu":{"type":"array","items":{"type":"string"}},
"set":{"type":"array","maxItems":5,"x-kubernetes-list-type":"set","items":{"type":"string","maxLength":8}},
"lm":{"type":"array","maxItems":5,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string","maxLength":5},"v":{"type":"integer"}}}},
"m":{"type":"object","maxProperties":4,"additionalProperties":{"type":"integer"}},
"ms":{"type":"object","additionalProperties":{"type":"string","maxLength":9}},
"o":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"string","maxLength":9},"absent":{"type":"string","maxLength":9},"a-b":{"type":"integer"},"namespace":{"type":"string","maxLength":9},"n":{"type":"string","maxLength":9,"nullable":true}}},
"ios":{"x-kubernetes-int-or-string":true},"ios2":{"x-kubernetes-int-or-string":true},
"dur":{"type":"string","format":"duration"},"ts":{"type":"string","format":"date-time"},"day":{"type":"string","format":"date"},"by":{"type":"string","format":"byte","maxLength":20},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`

const bigValue = `{"i":5,"j":-3,"d":2.5,"b":true,"c":false,"s":"hello","t":"ell","u":"a unicode \u00e9\u4e16 text","e":"one",
"li":[3,1,2],"ls":["a","bb","ccc"],"lu":["x","y"],"set":["p","q"],"lm":[{"k":"a","v":1},{"k":"b","v":2}],
"m":{"one":1,"two":2},"ms":{"k":"v","kk":"vv"},"o":{"x":7,"y":"why","a-b":4,"namespace":"ns","n":null},
"ios":8080,"ios2":"50%","dur":"1h30m","ts":"2024-02-29T12:34:56.789Z","day":"2024-03-01","by":"aGVsbG8=","free":{"a":1}}`

const oldValue = `{"i":4,"j":-3,"d":2.5,"b":true,"c":true,"s":"hullo","t":"ell","u":"x","e":"three",
"li":[1,2,3],"ls":["a"],"lu":[],"set":["q","p"],"lm":[{"k":"b","v":2},{"k":"a","v":1}],
"m":{"one":1},"ms":{},"o":{"x":7},"ios":"http","ios2":5,"dur":"90m","ts":"2023-01-01T00:00:00Z","day":"2024-03-01","by":"aGk=","free":{"a":1}}`

// What random expressions seldom hit.
var listed = []string{
	// literals and operators
	`true`, `1 == 1`, `-5 < 3`, `0x1F == 31`, `5u == 5u`, `1.5e3 == 1500.0`, `.5 < 1.0`, `b'abc' == b'\x61bc'`, `r'a\n' == 'a\\n'`,
	`'''a'b''' == "a'b"`, `"\u00e9" == 'é'`, `'\101' == 'A'`, `null == null`, `1 == 1.0`, `dyn(1) == 1u`, `1 < 1.5`, `2u > 1`, `5 / 2 == 2`,
	`-5 / 2 == -2`, `-5 % 3 == -2`, `5 / 0 == 1`, `5 % 0 == 1`, `5u / 0u == 1u`, `1.0 / 0.0 > 1.0`, `9223372036854775807 + 1 > 0`,
	`-9223372036854775808 - 1 < 0`, `-(-9223372036854775808) > 0`, `9223372036854775807 * 2 > 0`, `1u - 2u == 0u`, `18446744073709551615u + 1u > 0u`,
	`9223372036854775808 > 0`, `18446744073709551616u > 0u`, `true ? true : false`, `1 == 1 || 1 / 0 == 1`, `1 / 0 == 1 || true`, `1 / 0 == 1 || false`,
	`false && 1 / 0 == 1`, `1 / 0 == 1 && false`, `1 / 0 == 1 && true`, `!true`, `!!true`, `--5 == 5`, `'a' + 'b' == 'ab'`, `b'a' + b'b' == b'ab'`,
	`[1] + [2] == [1, 2]`, `1 in [1, 2]`, `3 in [1, 2]`, `1.0 in [1, 2]`, `'a' in {'a': 1}`, `1 in []`, `self.i in [5, 6]`, `self.s in ['hello']`,
	`self.s in self.ls`, `self.i in self.li`, `'one' in self.m`, `{'a': 1}.a == 1`, `{'a': 1}['a'] == 1`, `{1: 2}[1] == 2`, `{1: 2}[1.0] == 2`,
	`[1, 2][1] == 2`, `[1, 2][2] == 2`, `[1, 2][-1] == 2`, `{'a': 1}.b == 1`, `{'a': 1}['b'] == 1`, `self.li[5] == 1`, `self.m['three'] == 3`,
	`self.m.one == 1`, `has(self.m.one)`, `has(self.m.three)`, `has({'a': 1}.a)`, `[[1]] == [[1]]`, `{'a': [1]} == {'a': [1]}`, `{'a': 1, 'a': 2} == {}`,
	`[1, 'a'] == []`, `{'a': 1, 'b': 'c'} == {}`, `{1: 1, 'a': 1} == {}`, `type(1) == int`, `type(self.s) == string`, `type(self.ls) == list`,
	`type(self.m) == map`, `type(self.o) == map`, `type(null) == null_type`, `type(type(1)) == type`, `type(1) == type(2)`, `type(self.ts) == google.protobuf.Timestamp`,
	`type(optional.of(1)) == optional_type`, `dyn(1) + dyn('a') == 'b'`, `dyn(true) + dyn(1) == 1`, `dyn('a') < dyn(1)`, `dyn([1]) < dyn([2])`, `-dyn('a') == 1`, `!dyn(1)`,
	`dyn(1) ? true : false`, `dyn(1) && true`, `dyn('a') || true`, `dyn('a') || false`, `size(dyn(1)) == 1`, `dyn(1).a == 1`, `dyn(null).a == 1`, `dyn('a')[0] == 'a'`, `dyn([1])['a'] == 1`,
	`dyn([1, 2])[1.0] == 2`, `dyn([1, 2])[1u] == 2`, `dyn([1, 2])[0.5] == 2`, `has(dyn(1).a)`,
	// compile errors
	`self.nope == 1`, `self.o.nope == 1`, `nope == 1`, `nope(1)`, `self.s.nope()`, `1 + 'a' == 2`, `self.i + self.s == 'x'`, `self.i == self.s`, `self.i && true`,
	`!self.i`, `self.i`, `self.s`, `'abc'`, `self.i.a == 1`, `self.s.a == 1`, `self.li.a == 1`, `self.li['a'] == 1`, `size(1) == 1`, `[1, 2].all(x, x)`,
	`[1, 2].all(1, true)`, `[1, 2].map(x.y, x)`, `self.i.all(x, true)`, `has(1)`, `has(self)`, `has(self.nope)`, `self.free.a == 1`, `self.free == self.free`,
	`int('a') == 1`, `duration('a') == duration('1s')`, `timestamp('a') == timestamp(0)`, `'a'.matches('(')`, `self.s.matches('[')`, `Foo{a: 1} == 1`, `a.b.Foo{} == 1`,
	`self.metadata.name == 'a'`, `optional.of(1) == 1`, `self.?i == 5`, `1 ? true : false`, `true ? 1 : 'a'`, `(true ? 1 : 'a') == 1`, `[1, 2].exists(x, y, x)`, `[1].all(x, x, true)`,
	`self.namespace == 'a'`, `self.o.namespace == 'a'`, `self.o.__namespace__ == 'ns'`, `self.o.a__dash__b == 4`, `self.o.a-b == 4`, `as == 1`, `'%d'.format(['a']) == ''`, `'%s %s'.format(['a']) == ''`, `'%z'.format([1]) == ''`,
	"self.i\n  == self.nope", "'é' == self.nope", `self.i == 1 && self.nope && nope`, `[1].map(x, nope)`, `type(1) == 1`, `int == int`, `string(self.li) == 'a'`,
	``, `1 +`, `(1 == 1`, `1 == 1)`, `1 == `, `@`, `self.`, `'abc`, `[1, 2`, `{'a'}`, `1 2`, `a ? b`, `== 1`, `self.in == 1`, `if == 1`, `true false`, `1 = 1`, `self..a`, `&& true`, `"\q" == 'a'`,
	// macros
	`self.li.all(x, x > 0)`, `self.li.exists(x, x == 2)`, `self.li.exists_one(x, x == 2)`, `self.li.existsOne(x, x > 1)`, `self.li.map(x, x * 2) == [6, 2, 4]`,
	`self.li.map(x, x > 1, x * 2) == [6, 4]`, `self.li.filter(x, x > 1) == [3, 2]`, `self.m.all(k, k != '')`, `self.m.exists(k, self.m[k] == 2)`, `self.lm.all(e, e.v > 0)`,
	`self.lm.exists(e, e.k == 'c')`, `self.lm.map(e, e.k) == ['a', 'b']`, `self.o.all(k, k != '')`, `[].all(x, false)`, `[1, 0].all(x, 1 / x > 0)`, `[0, 1].exists(x, 1 / x > 0)`, `[1, 0].map(x, 1 / x) == []`,
	`self.li.all(i, v, v > i)`, `self.m.all(k, v, v > 0)`, `self.m.exists(k, v, k == 'one' && v == 1)`, `self.m.exists_one(k, v, v == 1)`, `self.li.transformList(i, v, v + i) == [3, 2, 4]`,
	`self.li.transformList(i, v, i > 0, v) == [1, 2]`, `self.m.transformMap(k, v, v + 1) == {'one': 2, 'two': 3}`, `self.m.transformMap(k, v, v > 1, v) == {'two': 2}`, `self.m.transformMapEntry(k, v, {v: k}) == {1: 'one', 2: 'two'}`,
	`[1, 1].transformMapEntry(i, v, {v: i}) == {}`, `self.li.map(x, self.ls.map(y, x)).size() == 3`, `self.li.map(x, [x]).map(y, y[0]) == self.li`, `[[1, 2], [3]].all(x, x.all(y, y > 0))`,
	`self.li.filter(x, x > 1).map(x, x + 1).exists(x, x == 4)`, `self.ls.map(x, x + x).all(x, x.size() < 9)`,
	// optional values
	`self.?i.hasValue()`, `self.o.?absent.hasValue()`, `self.o.?x.value() == 7`, `self.o.?absent.value() == 'a'`, `self.o.?absent.orValue('a') == 'a'`, `self.o.?x.orValue(1) == 7`, `self.?o.absent.hasValue()`,
	`self.?o.x.hasValue()`, `self.o.?absent.or(self.o.?y).value() == 'why'`, `self.li[?0].hasValue()`, `self.li[?9].hasValue()`, `self.m[?'one'].value() == 1`, `self.m[?'x'].hasValue()`,
	`optional.none().hasValue()`, `optional.of(1).value() == 1`, `optional.ofNonZeroValue(0).hasValue()`, `optional.ofNonZeroValue('a').hasValue()`, `optional.of(1) == optional.of(1)`, `optional.of(1) == optional.none()`,
	`optional.of(3).optMap(x, x + 1).value() == 4`, `optional.none().optMap(x, x).hasValue()`, `self.o.?x.optMap(x, x + 1).orValue(0) == 8`, `self.o.?y.optFlatMap(y, optional.of(y + 'a')).value() == 'whya'`,
	`[?self.o.?absent, ?self.o.?y] == ['why']`, `{?'a': self.o.?absent, 'b': 'c'} == {'b': 'c'}`, `[optional.of(1), optional.none()].unwrapOpt() == [1]`, `optional.unwrap([optional.of(1)]) == [1]`, `has(self.?o.x)`, `self.li.first().value() == 3`, `self.li.last().value() == 2`, `[].first().hasValue()`,
	`self.o.?x.optMap(x, x).optMap(y, y).optMap(z, z).value() == 7`,
	// strings
	`self.s.contains(self.t)`, `self.s.startsWith('he')`, `self.s.endsWith('lo')`, `self.s.matches('^h.*o$')`, `matches(self.s, 'l+')`, `self.s.size() == 5`, `size(self.u) == 17`, `self.u.charAt(10) == 'é'`, `self.s.charAt(9) == ''`,
	`self.s.charAt(5) == ''`, `self.s.charAt(-1) == ''`, `self.s.indexOf('l') == 2`, `self.s.indexOf('l', 3) == 3`, `self.s.indexOf('z') == -1`, `self.s.indexOf('', 9) == 5`, `self.s.lastIndexOf('l') == 3`, `self.s.lastIndexOf('l', 2) == 2`, `self.s.lastIndexOf('') == 5`, `self.s.lastIndexOf('a', -1) == 5`, `self.s.indexOf('a', -1) == 5`,
	`'HeLLo'.lowerAscii() == 'hello'`, `'é a'.upperAscii() == 'é A'`, `self.s.replace('l', 'L') == 'heLLo'`, `self.s.replace('l', 'L', 1) == 'heLlo'`, `'ab'.replace('', '-') == '-a-b-'`, `'ab'.replace('', '-', 2) == '-a-b'`, `'a,b'.split(',') == ['a', 'b']`, `'a,b,c'.split(',', 2) == ['a', 'b,c']`, `'abc'.split('') == ['a', 'b', 'c']`, `'a,b'.split(',', 0) == []`, `'abc'.split('', 2) == ['a', 'bc']`, `''.split(',') == ['']`,
	`self.s.substring(1) == 'ello'`, `self.s.substring(1, 3) == 'el'`, `self.s.substring(9) == ''`, `self.s.substring(3, 1) == ''`, `self.s.substring(0, 9) == ''`, `'  a '.trim() == 'a'`, `strings.quote('a"b\n') == '"a\\"b\\n"'`, `self.ls.join() == 'abbccc'`, `self.ls.join('-') == 'a-bb-ccc'`, `[].join() == ''`,
	`'%s-%d'.format(['a', 1]) == 'a-1'`, `'%s'.format([[1, 'a']]) == '[1, "a"]'`, `'%s'.format([{'a': 1.5}]) == '{"a":1.500000}'`, `'%.2f'.format([1.2345]) == '1.23'`, `'%f'.format([1234567.5]) == 'x'`, `'%x %X %b %o'.format([255, 255, 5, 8]) == 'ff FF 101 10'`, `'%e'.format([1234.5]) == 'x'`, `'%s %s %s'.format([true, null, 1.5]) == 'true null 1.5'`, `'%x'.format(['ab']) == '6162'`, `'%%'.format([]) == '%'`, `self.s.format([1]) == 'hello'`, `'%s'.format([self.dur]) == '5400s'`, `'%s'.format([self.ts]) == '2024-02-29T12:34:56.789Z'`, `'%s'.format([self.ls]) == '["a", "bb", "ccc"]'`, `'%d %s'.format(self.li) == '3 1'`, `'%s %s %s %s'.format(self.li) == ''`,
	// lists, sets
	`self.li.isSorted()`, `[1, 2].isSorted()`, `self.ls.isSorted()`, `self.li.sum() == 6`, `[1.5, 2.5].sum() == 4.0`, `[].sum() == 0`, `self.li.min() == 1`, `self.li.max() == 3`, `self.ls.min() == 'a'`, `[].min() == 1`, `self.li.indexOf(1) == 1`, `self.li.lastIndexOf(9) == -1`, `self.ls.indexOf('bb') == 1`, `self.li.slice(0, 2) == [3, 1]`, `self.li.slice(1, 9) == []`, `self.li.slice(-1, 2) == []`, `self.li.slice(2, 1) == []`, `[[1], [2, 3]].flatten() == [1, 2, 3]`, `[[1, [2]]].flatten(2) == [1, 2]`, `[[1]].flatten(-1) == []`,
	`self.li.sort() == [1, 2, 3]`, `self.ls.sort() == self.ls`, `self.lm.sortBy(e, -e.v).map(e, e.k) == ['b', 'a']`, `[3, 1].sortBy(x, x) == [1, 3]`, `self.li.reverse() == [2, 1, 3]`, `[1, 1, 2].distinct() == [1, 2]`, `lists.range(3) == [0, 1, 2]`, `lists.range(-1) == []`, `sets.contains([1, 2], [1])`, `sets.equivalent([1, 2], [2, 1, 1])`, `sets.intersects(self.li, [9])`, `sets.contains(self.ls, ['a'])`, `[dyn(1), dyn('a')].sort() == []`,
	`self.set == oldSelf.set`, `self.lm == oldSelf.lm`, `self.li == oldSelf.li`, `self.set + ['p', 'z'] == ['p', 'q', 'z']`, `self.lm + [{'k': 'a', 'v': 9}] == self.lm`, `(self.lm + oldSelf.lm).size() == 2`, `(self.li + oldSelf.li).size() == 6`, `self.o == oldSelf.o`, `self.m == oldSelf.m`, `self == oldSelf`, `self == self`, `self.m == {'one': 1, 'two': 2}`, `{'one': 1, 'two': 2} == self.m`, `self.ls == ['a', 'bb', 'ccc']`, `['a', 'bb', 'ccc'] == self.ls`,
	// conversions
	`int('12') == 12`, `int('+12') == 12`, `int(self.s) == 1`, `int(2.9) == 2`, `int(-2.9) == -2`, `int(1e19) == 1`, `int(5u) == 5`, `int(18446744073709551615u) == 1`, `uint(5) == 5u`, `uint(-1) == 1u`, `uint('5') == 5u`, `uint(self.s) == 1u`, `double('1.5') == 1.5`, `double(self.s) == 1.0`, `double('inf') > 1.0`, `double(1) == 1.0`, `string(1) == '1'`, `string(1.5) == '1.5'`, `string(1e21) == '1e+21'`, `string(123456789.0) == '1.23456789e+08'`, `string(100000.0) == '100000'`, `string(0.00001) == '1e-05'`, `string(true) == 'true'`, `string(b'abc') == 'abc'`, `string(b'\xff') == 'a'`, `bytes('abc') == b'abc'`, `size(bytes('é')) == 2`, `bool('true')`, `bool('T')`, `bool(self.s)`, `string(self.dur) == '5400s'`, `string(self.ts) == '2024-02-29T12:34:56.789Z'`, `string(self.by) == 'hello'`, `self.by.size() == 5`, `int(self.ts) == 1709210096`, `int(self.dur) == 5400000000000`, `timestamp(1709210096) < self.ts`, `timestamp('2024-02-29T12:34:56.789Z') == self.ts`, `timestamp('2024-02-30T00:00:00Z') == self.ts`, `timestamp('2024-01-01T00:00:00+02:00') == timestamp('2023-12-31T22:00:00Z')`, `duration('1h30m') == self.dur`, `duration('-1.5s') < duration('0')`, `timestamp(999999999999) == self.ts`, `timestamp(self.s) == self.ts`, `duration(self.s) == self.dur`, `string(dyn(null)) == 'null'`, `int(dyn(true)) == 1`,
	// time
	`self.dur.getHours() == 1`, `self.dur.getMinutes() == 90`, `self.dur.getSeconds() == 5400`, `self.dur.getMilliseconds() == 5400000`, `self.ts.getFullYear() == 2024`, `self.ts.getMonth() == 1`, `self.ts.getDate() == 29`, `self.ts.getDayOfMonth() == 28`, `self.ts.getDayOfWeek() == 4`, `self.ts.getDayOfYear() == 59`, `self.ts.getHours() == 12`, `self.ts.getMinutes() == 34`, `self.ts.getSeconds() == 56`, `self.ts.getMilliseconds() == 789`, `self.ts.getHours('+02:00') == 14`, `self.ts.getHours('-23:30') == 13`, `self.ts.getHours('UTC') == 12`, `self.ts.getHours('Nowhere') == 12`, `self.ts + self.dur > self.ts`, `self.ts - self.dur < self.ts`, `self.ts - oldSelf.ts > duration('1h')`, `self.dur + self.dur == duration('3h')`, `self.dur - self.dur == duration('0s')`, `self.dur == oldSelf.dur`, `self.day < self.ts`, `self.ts + duration('99999999h') > self.ts`, `duration('2562047h') + duration('2562047h') > duration('0s')`,
	// regex
	`self.s.find('l+') == 'll'`, `self.s.find('z') == ''`, `self.s.findAll('[a-z]') == ['h', 'e', 'l', 'l', 'o']`, `self.s.findAll('l', 1) == ['l']`, `self.s.findAll('z*') == ['']`, `'abc'.findAll('') == ['', '', '', '']`, `'aab'.findAll('a*') == ['aa', '']`, `self.s.matches(self.t)`, `self.s.matches('(' + self.t)`, `self.s.find('(')  == ''`,
	// Kubernetes
	`isURL('https://a.b:80/c?d=e')`, `isURL('::')`, `isURL('a')`, `isURL('/a')`, `url('https://a.b:80/c?d=e').getHost() == 'a.b:80'`, `url('https://a.b:80/c').getHostname() == 'a.b'`, `url('https://a.b:80/c').getPort() == '80'`, `url('https://a.b/c d').getEscapedPath() == '/c%20d'`, `url('https://a.b/c?d=e&d=f').getQuery() == {'d': ['e', 'f']}`, `url('https://a.b').getScheme() == 'https'`, `url('a').getHost() == ''`, `url('https://a') == url('https://a')`, `url('https://[::1]:80/').getHostname() == '::1'`,
	`isIP('1.2.3.4')`, `isIP('1.2.3')`, `isIP('01.2.3.4')`, `isIP('::1')`, `isIP('::ffff:1.2.3.4')`, `isIP('fe80::1%eth0')`, `ip('1.2.3.4').family() == 4`, `ip('::1').family() == 6`, `ip('::1').isLoopback()`, `ip('0.0.0.0').isUnspecified()`, `ip('224.0.0.1').isLinkLocalMulticast()`, `ip('169.254.1.1').isLinkLocalUnicast()`, `ip('8.8.8.8').isGlobalUnicast()`, `ip.isCanonical('::1')`, `ip.isCanonical('0::1')`, `string(ip('2001:DB8:0:0:0:0:0:1')) == '2001:db8::1'`, `ip(self.s).family() == 4`, `ip('1.2.3.4') == ip('1.2.3.4')`,
	`isCIDR('10.0.0.0/8')`, `isCIDR('10.0.0.0/33')`, `isCIDR('10.0.0.0')`, `cidr('10.0.0.0/8').containsIP('10.1.2.3')`, `cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))`, `cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')`, `cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/7'))`, `cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')`, `cidr('10.1.0.0/8').prefixLength() == 8`, `cidr('10.1.0.0/8').ip() == ip('10.1.0.0')`, `string(cidr('10.1.0.0/8')) == '10.1.0.0/8'`, `cidr('10.0.0.0/8').containsIP('x')`, `cidr(self.s).prefixLength() == 1`,
	`isQuantity('1Gi')`, `isQuantity('x')`, `isQuantity('1.5')`, `isQuantity('1e3')`, `isQuantity('-2m')`, `isQuantity('1KI')`, `isQuantity('')`, `isQuantity('1.')`, `isQuantity('.5')`, `isQuantity('1e')`, `quantity('1Gi').isGreaterThan(quantity('1G'))`, `quantity('1k').compareTo(quantity('1000')) == 0`, `quantity('500m').isInteger()`, `quantity('2').asInteger() == 2`, `quantity('500m').asInteger() == 2`, `quantity('500m').asApproximateFloat() == 0.5`, `quantity('1').add(quantity('2')) == quantity('3')`, `quantity('1').add(2).sub(quantity('500m')).compareTo(quantity('2.5')) == 0`, `sign(quantity('-1')) == -1`, `quantity(self.s).isInteger()`, `quantity('100Ei').isLessThan(quantity('1'))`, `quantity('1E') == quantity('1000P')`,
	`!format.dns1123Label().validate('a-b').hasValue()`, `format.dns1123Label().validate('A').hasValue()`, `format.named('dns1035Label').value().validate('1a').hasValue()`, `format.named('nope').hasValue()`, `!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()`, `format.date().validate('2024-13-01').hasValue()`, `format.qualifiedName().validate('a/b').hasValue()`, `format.byte().validate('aGVsbG8=').hasValue()`, `format.dns1123Label() == format.dns1123Label()`,
	// schema values
	`self.ios == 8080`, `self.ios2 == '50%'`, `type(self.ios) == int ? self.ios < 9000 : false`, `self.ios + 1 == 8081`, `self.ios + 'a' == 'b'`, `self.ios2.matches('%')`, `self.ios.matches('%')`, `int(self.ios) == 8080`, `string(self.ios) == '8080'`, `self.ios.size() == 1`, `has(self.o.absent)`, `has(self.o.x)`, `has(self.o.n)`, `self.o.n == null`, `self.o.absent == 'a'`, `has(self.o)`, `has(self.nope.x)`, `oldSelf.i == 4`, `self.i >= oldSelf.i`, `self.e == 'one'`, `self.lm[0].v == 1`, `self.lm.filter(e, e.k == 'a')[0].v == 1`, `self.ms['k'] == 'v'`, `self.ms.all(k, self.ms[k].size() < 3)`, `has(self.o.a__dash__b)`, `self.ts == oldSelf.ts`, `self.lu.all(x, self.lu.all(y, x != y || x == y))`, `self.lu.all(x, self.lu.all(y, self.lu.all(z, x + y != z)))`, `self.u.matches('a.*b.*c')`, `self.u == self.s`, `self.u.contains(self.u)`, `self.lu.map(x, x.size()).sum() == 2`, `self.ms.map(k, self.ms[k]).exists(v, v == 'v')`, `(self.b ? self.s : self.t) == 'hello'`, `(self.b ? self.o : self.o).x == 7`, `(self.li + self.li)[4] == 1`, `self.li.map(x, {'a': x})[0].a == 3`, `{'a': self.o}.a.x == 7`, `[self.o][0].x == 7`, `size(self.s + self.t) == 8`, `dyn(self.o).x == 7`, `dyn(self).o.x == 7`, `self.li[self.i - 5] == 3`, `self.li[self.lm[0].v] == 1`, `self.m[self.e] == 1`, `self.o.x in [7]`, `self.o.y.startsWith(self.o.y)`, `!(self.i > 3 && self.s != 'x') || self.c`,
	`lists.range(100).all(x, lists.range(100).all(y, x + y < 1000))`, `lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))`,
}
