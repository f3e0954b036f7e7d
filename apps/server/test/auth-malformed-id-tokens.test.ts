// A malformed ID token is rejected before the provider is called.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { type AuthProject, authProject } from './auth-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let provider: Server
let project: AuthProject
let requests = 0
before(async () => {
  provider = createServer((_request, response) => {
    requests++
    response.writeHead(500).end()
  }).listen(0, '127.0.0.1')
  await once(provider, 'listening')
  platform = await startPlatform({ settings: { PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8' } })
  const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
  project = await authProject(platform, {
    providers: { google: { enabled: true, client_id: 'a', client_secret: 'b', issuer } },
  })
})
after(async () => {
  await platform?.stop()
  provider?.close()
})

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const claims = { iss: 'https://issuer.test', sub: '1', aud: 'a', iat: 1, exp: 9_999_999_999 }
const token = (header: unknown, payload: unknown, signature = 'c2ln') =>
  `${part(header)}.${part(payload)}.${signature}`
const signIn = (id_token: string) =>
  project.auth('POST', '/token?grant_type=id_token', { provider: 'google', id_token })

const malformed: Record<string, string> = {
  'no JWT': 'nonsense',
  'two parts': 'a.b',
  'four parts': `${token({ alg: 'RS256' }, claims)}.x`,
  'five parts, as an encrypted token has': 'a.b.c.d.e',
  'an empty signature': token({ alg: 'RS256' }, claims, ''),
  'a signature with other characters': token({ alg: 'RS256' }, claims, 'sig nature'),
  'a header that is no JSON': `eyJ.${part(claims)}.c2ln`,
  'a header that is a list': token(['RS256'], claims),
  'no algorithm': token({}, claims),
  'the algorithm none': token({ alg: 'none' }, claims),
  'a symmetric algorithm': token({ alg: 'HS256' }, claims),
  'a payload that is no JSON': `${part({ alg: 'RS256' })}.bm9wZQ.c2ln`,
  'a payload that is null': token({ alg: 'RS256' }, null),
  'no subject': token({ alg: 'RS256' }, { ...claims, sub: undefined }),
  'an expiry that is text': token({ alg: 'RS256' }, { ...claims, exp: 'tomorrow' }),
  'no issuer': token({ alg: 'RS256' }, { ...claims, iss: undefined }),
  '20,000 characters': token({ alg: 'RS256' }, { ...claims, pad: 'x'.repeat(20_000) }),
}
for (const [what, text] of Object.entries(malformed))
  test(`id tokens: ${what} is rejected without a request to the provider`, async () => {
    const { status, body } = await signIn(text)
    assert.deepEqual([status, body.code], [400, 'invalid_credentials'], JSON.stringify(body))
    assert.match(body.message, /^Bad ID token: /)
    assert.equal(requests, 0)
  })

test('id tokens: a token of the right form is checked with the provider', async () => {
  assert.equal((await signIn(token({ alg: 'RS256' }, claims))).status, 400)
  assert.ok(requests > 0)
})
