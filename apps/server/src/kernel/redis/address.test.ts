import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRedisUrl, type RedisAddress } from './address.ts'

const cases: [url: string, address: RedisAddress][] = [
  ['redis://localhost', { host: 'localhost', port: 6379, isTls: false, login: undefined }],
  [
    'redis://:s%3Acret@10.0.0.1:7000/0',
    { host: '10.0.0.1', port: 7000, isTls: false, login: { user: 'default', password: 's:cret' } },
  ],
  [
    'rediss://me:pass@[::1]:6380',
    { host: '::1', port: 6380, isTls: true, login: { user: 'me', password: 'pass' } },
  ],
]
for (const [url, address] of cases) test(url, () => assert.deepEqual(parseRedisUrl(url), address))
