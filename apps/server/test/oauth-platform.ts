// A platform with a real OpenID provider and a test server for GitHub and Discord, and a project that uses both.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type GithubLike, startGithubLike } from './github-like.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { type Landing, type OauthStage, openOauthStage, someone } from './oauth-setup.ts'

/** No rate limits, and providers on this machine may be called. */
export const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8',
}

export interface OauthPlatform {
  platform: TestPlatform
  identity: IdentityProvider
  github: GithubLike
  setup: OauthStage
}

export function oauthPlatform() {
  const stage = {} as OauthPlatform
  before(async () => {
    const [platform, identity, github] = await Promise.all([
      startPlatform({ settings: unlimited }),
      startIdentityProvider(),
      startGithubLike(),
    ])
    Object.assign(stage, { platform, identity, github })
    stage.setup = await openOauthStage(platform, identity, github)
  })
  after(async () => {
    await stage.platform?.stop()
    await stage.identity?.close()
    await stage.github?.close()
  })

  return {
    stage,
    /** An account at the OpenID provider. */
    openidAccount(claims: object = {}) {
      const { name, email } = someone()
      const account = { sub: `sub-${name}`, email, email_verified: true, name: 'Ada Lovelace', ...claims }
      stage.identity.accounts.set(name, account)
      return { name, account }
    },
    /** The user of a completed sign-in. */
    async userOf({ fragment }: Landing, at: OauthStage = stage.setup) {
      assert.ok(fragment['access_token'], JSON.stringify(fragment))
      const { status, body } = await at.call('GET', 'user', { token: fragment['access_token'] })
      assert.equal(status, 200, JSON.stringify(body))
      return body
    },
    eventsOf: (userId: string) =>
      stage.setup
        .rows<{ type: string }>(
          sql`select type from auth.events where user_id = ${userId} order by created_at`,
        )
        .then(events => events.map(({ type }) => type)),
  }
}
