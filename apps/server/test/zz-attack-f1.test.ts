import { after, before, test } from 'node:test'
import net from 'node:net'
import { sql, raw } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
let platform: TestPlatform
let id: string, token: string
before(async () => { platform = await startPlatform({settings:{PLATFORM_RATE_LIMIT_SERVICE_ROLE:'0', ...(process.env['TEST_REDIS_URL'] && {REDIS_URL: process.env['TEST_REDIS_URL']})}}); ({ id, service_role_key: token } = await platform.createProject()) })
after(async () => { await platform.stop() })
const c = (method: string, path: string, body?: unknown, o: any = {}) => platform.call(method, `/v1/cache/${id}/${path}`, { token, body, ...o })
const show = (what: string, r: any) => console.log(what, '→', r.status, JSON.stringify(r.body)?.slice(0, 230))
const rawCall = (path: string) => new Promise<string>(resolve => {
  const s = net.connect(Number(new URL(platform.url).port), '127.0.0.1'); let t = ''
  s.on('data', d => { t += d }); s.on('close', () => resolve(t.split('\r\n')[0] + ' ' + t.split('\r\n\r\n')[1])); s.on('error', () => {})
  s.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`)
})
test('keys by path', async () => {
  const keys = ['a/b', '/', '//', 'a/', '/a', '%', '%25', '%2F', '%252F', '%zz', 'a%b', '?', 'a?b=c', '#', '+', ' ', '  ', ';', 'a;b', ':', '*', '[', '\\', '\0', 'a\0b', '\n', '\r\n', '\u2028', '😀', 'é', 'e\u0301', '__proto__', 'constructor', 'toString', 'get', '0', '-0', '"', '\ufeff', '\uffff', '\u{10ffff}', `${id}:x`, ':id', ':key', '*path', '..a', '...', '.', '..', 'a'.repeat(2048), '日'.repeat(2048)]
  let bad = 0
  for (const key of keys) {
    const set = await c('POST', 'set', { key, value: `v ${key}` })
    const mget = await c('POST', 'mget', { keys: [key] })
    const get = await c('GET', `get/${encodeURIComponent(key)}`)
    const ttl = await c('GET', `ttl/${encodeURIComponent(key)}`)
    const ex = await c('GET', `exists/${encodeURIComponent(key)}`)
    const man = await platform.call('GET', `/api/v1/projects/${id}/cache/keys/${encodeURIComponent(key)}`, { token: platform.adminToken })
    const ok = set.body.ok && mget.body.values?.[0] === `v ${key}` && get.body.value === `v ${key}` && ttl.body.ttl === -1 && ex.body.exists === true && man.body.key === key && man.body.value === `v ${key}`
    if (!ok) { bad++; console.log('DIFFERENT', JSON.stringify(key.slice(0,30)), set.status, mget.status, get.status, JSON.stringify(get.body).slice(0,120), ttl.status, ex.status, man.status) }
  }
  console.log('bad', bad)
  for (const p of ['.', '..', '%2e', '%2e%2e', '%2E%2E', 'a%2e%2e']) console.log('raw', p, (await rawCall(`/v1/cache/${id}/get/${p}`)).slice(0, 120))
  for (const p of ['%ff', '%c0%af', '%ed%a0%80', '%', '%z', '%f4%90%80%80', '%C3%28', '']) console.log('raw', p, (await rawCall(`/v1/cache/${id}/get/${p}`)).slice(0, 160))
  await c('POST', 'set', { key: 'plain', value: 'p' })
  for (const p of ['get/plain/', 'get//plain', 'get/plain//', 'get/plain?x=1', 'get/plain#f', 'Get/plain', 'get/PLAIN', 'get/plain%20', 'get/pl%61in']) console.log('raw', p, (await rawCall(`/v1/cache/${id}/${p}`)).slice(0, 160))
  for (const m of ['HEAD', 'OPTIONS', 'PUT', 'DELETE', 'PATCH']) show(m, await c(m, 'get/plain'))
})
test('bodies', async () => {
  for (const [p, b] of [
    ['set', '{"key":"","value":"x"}'], ['set', '{"key":"k","value":1}'], ['set', '{"key":"k","value":null}'], ['set', '{"key":"k"}'], ['set', '{"key":"k","value":"x","nx":true,"xx":true}'], ['set', '{"key":"k","value":"x","nx":"true"}'],
    ['set', '{"key":"k","value":"x","ex":0}'], ['set', '{"key":"k","value":"x","ex":-1}'], ['set', '{"key":"k","value":"x","ex":1.5}'], ['set', '{"key":"k","value":"x","ex":1e400}'], ['set', '{"key":"k","value":"x","px":1}'], ['set', '{"key":"k","value":"x","ex":100,"px":1}'], ['set', '{"key":"k","value":"x","ex":null}'],
    ['set', '{"key":"k","value":"a","value":"b"}'], ['set', '{"key":"k","value":"\\ud800"}'], ['set', '{"key":"\\udc00","value":"x"}'], ['set', '{"__proto__":{"nx":true},"key":"k","value":"x"}'], ['set', '{"key":"k","value":"x","constructor":1}'],
    ['mset', '{"pairs":{"__proto__":"p","constructor":"c","a":"1"}}'], ['mget', '{"keys":["__proto__","constructor","a","toString"]}'], ['mset', '{"pairs":{}}'], ['mset', '{"pairs":{"":"x"}}'], ['mset', '{"pairs":[]}'], ['mset', '{"pairs":{"a":"1","a":"2"}}'], ['mset', '{"__proto__":{"pairs":{}}, "pairs":{"z":"1"}}'], ['mset', '{"pairs":{"a":1}}'], ['mset', '{"pairs":{"\\ud800":"x"}}'],
    ['mget', '{"keys":[]}'], ['mget', '{"keys":["a","a"]}'], ['mget', '{"keys":[1]}'], ['del', '{"keys":["a","a","zz"]}'], ['del', '{"keys":[]}'],
    ['set', '{"key":"n","value":"9223372036854775807"}'], ['incr', '{"key":"n"}'], ['incr', '{"key":"n","by":-1}'], ['decr', '{"key":"n","by":9007199254740991}'], ['incr', '{"key":"n","by":9007199254740992}'], ['incr', '{"key":"n","by":1.5}'], ['incr', '{"key":"n","by":"1"}'], ['decr', '{"key":"n","by":-9007199254740991}'], ['incr', '{"key":"n","by":0}'], ['incr', '{"key":"n","by":-0}'], ['decr', '{"key":"n0","by":0}'], ['decr', '{"key":"n0","by":-0}'],
    ['set', '{"key":"n","value":"-9223372036854775808"}'], ['decr', '{"key":"n"}'], ['incr', '{"key":"n","by":0}'], ['set', '{"key":"n","value":"-0"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":"01"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":" 1"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":"1\\n"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":""}'], ['incr', '{"key":"n"}'],
    ['set', '{"key":"n","value":"9223372036854775808"}'], ['incr', '{"key":"n","by":-1}'], ['set', '{"key":"n","value":"+1"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":"1e3"}'], ['incr', '{"key":"n"}'], ['set', '{"key":"n","value":"١"}'], ['incr', '{"key":"n"}'],
    ['expire', '{"key":"absent","seconds":5}'], ['expire', '{"key":"n","seconds":0}'], ['expire', '{"key":"n","seconds":1}'], ['expire', '{"key":"n","seconds":1.5}'], ['expire', '{"key":"n","seconds":3155760000}'], ['expire', '{"key":"n","seconds":3155760001}'],
  ] as const) show(`${p} ${b}`.slice(0,90), await c('POST', p, b))
})
test('scans', async () => {
  for (const s of ['cursor=0', 'cursor=99999999999999999999', 'cursor=18446744073709551615', 'cursor=-1', 'cursor=', 'cursor=abc', 'cursor=9007199254740993', 'cursor=00', 'count=0', 'count=1e9', 'count=-1', 'count=abc', 'match=', 'match=%5B', 'match=%5B%5E%5D', 'match=%5C', `match=${id}:*`, 'match=*&match=x', 'match=%00', 'match=%ff', 'cursor=1&cursor=2', 'match=' + 'a'.repeat(1025)]) show(s.slice(0,60), await c('GET', `scan?${s}`))
})
test('management', async () => {
  const m = (method: string, path: string, body?: unknown, t = platform.adminToken) => platform.call(method, `/api/v1/projects/${id}/cache/${path}`, { token: t, body })
  for (const p of ['keys?limit=1e30', 'keys?offset=1e30', 'keys?limit=-1', 'keys?limit=0', 'keys?limit=201', 'keys?pattern=', 'keys?pattern=%00', 'keys?pattern=a&pattern=b', 'stats', 'keys/zzzz']) show(p, await m('GET', p).then(r => ({...r, body: r.body.keys ? {...r.body, keys: r.body.keys.length} : r.body})))
  show('set', await m('POST', 'keys', { key: 'secretkey', value: 'topsecretvalue-1', ttl: 5 }))
  show('set 0', await m('POST', 'keys', { key: 'secretkey', value: 'topsecretvalue-2', ttl: 0 }))
  show('set nul', await m('POST', 'keys', { key: 'nul\0key', value: 'topsecretvalue-3' }))
  show('del nul', await m('DELETE', `keys/${encodeURIComponent('nul\0key')}`))
  show('del', await m('DELETE', `keys/secretkey`))
  show('del absent', await m('DELETE', `keys/secretkey`))
  await m('POST', 'keys', { key: 'k'.repeat(2048), value: 'x' })
  show('del long', await m('DELETE', `keys/${'k'.repeat(2048)}`))
  show('flush', await m('POST', 'flush'))
  const audit = await platform.app.control.rows<any>(sql`select action, target, project_id from audit where action like 'cache%' order by 1`)
  console.log(audit.map(a => [a.action, a.target?.slice(0,50), a.project_id === id]))
  console.log('logs with secrets', platform.logged.filter(l => /topsecret|secretkey/.test(l)).length, 'audit trouble', platform.logged.filter(l => /audit entry/.test(l)).map(l => l.slice(0, 300)))
  console.log('5xx', platform.logged.filter(l => /"status":5/.test(l)).length, platform.logged.filter(l => /request failed/.test(l)).map(l => l.slice(0, 500)))
})
