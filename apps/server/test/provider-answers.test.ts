// Answers of a sign-in provider, which a project may run itself. Bytes and values are limited before the answer is parsed,
// so that it cannot block the event loop (faults-and-attacks 47, 51).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import type { ConfiguredProvider } from '#src/services/auth/oauth/configuration.ts'
import { createIssuers } from '#src/services/auth/oauth/issuers.ts'
import { fetchJson, fetchTokens } from '#src/services/auth/oauth/provider-http.ts'

const outbound = createOutbound(createConnector({ allow: ['127.0.0.1'] }))
const answers = new Map<string, { body: string; type?: string }>()
const server = createServer((request, response) => {
  const { body, type = 'application/json' } = answers.get(request.url!)!
  response.writeHead(200, { 'content-type': type }).end(body)
})
let url: string
before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
after(() => server.close())

const tooMany = { code: 'bad_oauth_callback', message: 'The provider answered with too much' }

const bodies: Record<string, string> = {
  'an array of empty objects': `[${'{},'.repeat(60_000)}{}]`,
  'an array of numbers': `[${'1,'.repeat(60_000)}1]`,
  'nested arrays': '['.repeat(60_000) + ']'.repeat(60_000),
  'an object of many keys': `{${Array.from({ length: 20_000 }, (_, at) => `"k${at}":0`).join(',')}}`,
}
for (const [what, body] of Object.entries(bodies))
  test(`provider answers: ${what} is rejected before it is parsed`, async () => {
    answers.set('/json', { body })
    await assert.rejects(fetchJson(outbound, { url: `${url}/json` }), tooMany)
    answers.set('/tokens', { body })
    await assert.rejects(fetchTokens(outbound, { url: `${url}/tokens` }), tooMany)
  })

test('provider answers: a form with many fields is rejected before it is parsed', async () => {
  answers.set('/form', { body: 'a&'.repeat(60_000), type: 'application/x-www-form-urlencoded' })
  await assert.rejects(fetchTokens(outbound, { url: `${url}/form` }), tooMany)
})

test('provider answers: thousands of keys are rejected before they are parsed', async () => {
  const key = { kty: 'RSA', kid: 'k', e: 'AQAB', n: 'x' }
  answers.set('/.well-known/openid-configuration', {
    body: JSON.stringify({ issuer: url, jwks_uri: `${url}/keys` }),
  })
  answers.set('/keys', { body: JSON.stringify({ keys: Array.from({ length: 3000 }, () => key) }) })
  const issuer = await createIssuers(outbound).of({ name: 'google', issuer: url } as ConfiguredProvider)
  await assert.rejects(
    async () => issuer.keys({ alg: 'RS256', kid: 'k' }, { payload: '', signature: '' }),
    tooMany,
  )
})

test('provider answers: a normal answer is accepted, also with many commas in its texts', async () => {
  const body = { name: ','.repeat(2000), emails: Array.from({ length: 100 }, (_, at) => ({ at })) }
  answers.set('/json', { body: JSON.stringify(body) })
  assert.deepEqual(await fetchJson(outbound, { url: `${url}/json` }), body)
  answers.set('/form', { body: 'access_token=x&scope=a', type: 'application/x-www-form-urlencoded' })
  assert.deepEqual(await fetchTokens(outbound, { url: `${url}/form` }), { access_token: 'x', scope: 'a' })
})
