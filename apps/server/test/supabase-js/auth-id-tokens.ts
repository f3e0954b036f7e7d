// signInWithIdToken with valid tokens of a real OpenID provider and with forged ones.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import type { SignInWithIdTokenCredentials } from '@supabase/supabase-js'
import { startIdentityProvider } from '../identity-provider.ts'
import { dataOf, looksLikeSession, looksLikeUser, refused } from './auth-objects.ts'
import { withProvider } from './auth-provider-setup.ts'
import type { Setup } from './auth-setup.ts'
import { newUser } from './auth-users.ts'

export function idTokenTests(setup: () => Setup): void {
  const here = withProvider(setup)

  describe('signInWithIdToken', () => {
    const tokensOf = (name: string, nonce?: string) =>
      here().identity.tokens(here().client, here().callback, name, nonce)

    test('signs in with a valid ID token', async () => {
      const { project } = here()
      const { name, account } = here().account()
      const { id_token: token, access_token } = await tokensOf(name)
      const auth = project.connect()
      const { session, user } = dataOf(
        await auth.signInWithIdToken({ provider: 'google', token, access_token }),
      )
      looksLikeSession(session)
      looksLikeUser(user)
      assert.equal(user.email, account.email)
      assert.deepEqual(user.app_metadata, { provider: 'google', providers: ['google'] })
      assert.equal(user.identities?.[0]?.id, account.sub)
      assert.deepEqual((await auth.getSession()).data.session, session)
      const again = dataOf(await project.connect().signInWithIdToken(await fresh(name)))
      assert.equal(again.user.id, user.id)
    })
    const fresh = async (name: string): Promise<SignInWithIdTokenCredentials> => {
      const { id_token: token, access_token } = await tokensOf(name)
      return { provider: 'google', token, access_token }
    }

    test('checks the nonce of the token', async () => {
      const { project } = here()
      const { name } = here().account()
      const nonce = randomBytes(16).toString('hex')
      const hashed = createHash('sha256').update(nonce).digest('hex')
      const { id_token: token, access_token } = await tokensOf(name, hashed)
      const attempt = (given?: string) =>
        project.connect().signInWithIdToken({
          provider: 'google',
          token,
          access_token,
          ...(given !== undefined && { nonce: given }),
        })
      for (const wrong of [undefined, 'another nonce', hashed]) {
        const { data, error } = await attempt(wrong)
        assert.deepEqual([error?.status, data.session], [400, null], `${wrong}`)
      }
      dataOf(await attempt(nonce))
    })

    test('refuses tokens of another issuer, for another client, forged or expired', async () => {
      const { project } = here()
      const { name, account } = here().account()
      const other = await startIdentityProvider({ accounts: { [name]: account } })
      try {
        const otherClient = await other.register(here().callback)
        const elsewhere = await here().identity.register(here().callback)
        const [head, body] = (await tokensOf(name)).id_token.split('.')
        const tokens = {
          'another issuer': (await other.tokens(otherClient, here().callback, name)).id_token,
          'another client': (await here().identity.tokens(elsewhere, here().callback, name)).id_token,
          'a forged signature': `${head}.${body}.${'A'.repeat(342)}`,
          'no signature': `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`,
          'no token': 'nonsense',
        }
        for (const [what, token] of Object.entries(tokens)) {
          const { data, error } = await project.connect().signInWithIdToken({ provider: 'google', token })
          assert.deepEqual([error?.status, data.session, data.user], [400, null, null], what)
        }
      } finally {
        await other.close()
      }
    })

    test('refuses providers that are not configured', async () => {
      const { id_token: token } = await tokensOf(here().account().name)
      for (const provider of ['apple', 'nonsense']) {
        const { error } = await here().project.connect().signInWithIdToken({ provider, token })
        assert.equal(error?.status, 400, provider)
      }
    })

    test('links the identity with linkIdentity for a signed-in user', async () => {
      const { auth, user } = await newUser(here().project)
      const { name } = here().account()
      const linked = dataOf(await auth.linkIdentity(await fresh(name)))
      looksLikeSession(linked.session)
      assert.equal(linked.user.id, user.id)
      assert.deepEqual(linked.user.identities?.map(each => each.provider).sort(), ['email', 'google'])
      const { auth: second } = await newUser(here().project)
      const taken = await second.linkIdentity(await fresh(name))
      refused(taken, 422, 'identity_already_exists')
    })
  })
}
