// Answers of a sign-in provider, which a project names and may run itself: bounded in bytes and in values before they
// are parsed, so that none holds the event loop (faults-and-attacks 47, 51).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import type { ConfiguredProvider } from '#src/services/auth/oauth/configuration.ts'
import { createIssuers } from '#src/services/auth/oauth/issuers.ts'
import { askForJson, askForTokens } from '#src/services/auth/oauth/provider-call.ts'

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
  test(`${what} is refused before it is parsed`, async () => {
    answers.set('/json', { body })
    await assert.rejects(askForJson(outbound, { url: `${url}/json` }), tooMany)
    answers.set('/tokens', { body })
    await assert.rejects(askForTokens(outbound, { url: `${url}/tokens` }), tooMany)
  })

test('a form of many fields is refused before it is parsed', async () => {
  answers.set('/form', { body: 'a&'.repeat(60_000), type: 'application/x-www-form-urlencoded' })
  await assert.rejects(askForTokens(outbound, { url: `${url}/form` }), tooMany)
})

test('thousands of keys are refused before they are parsed', async () => {
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

test('an ordinary answer is taken, commas in its texts included', async () => {
  const body = { name: ','.repeat(2000), emails: Array.from({ length: 100 }, (_, at) => ({ at })) }
  answers.set('/json', { body: JSON.stringify(body) })
  assert.deepEqual(await askForJson(outbound, { url: `${url}/json` }), body)
  answers.set('/form', { body: 'access_token=x&scope=a', type: 'application/x-www-form-urlencoded' })
  assert.deepEqual(await askForTokens(outbound, { url: `${url}/form` }), { access_token: 'x', scope: 'a' })
})
