// Projects for attacks on sign-in with providers, and a check that an attack changed nothing.
import assert from 'node:assert/strict'
import { before, beforeEach } from 'node:test'
import { type OauthPlatform, oauthPlatform } from './oauth-platform.ts'
import { type Landing, type OauthStage, openOauthStage, site } from './oauth-setup.ts'

export function oauthAttackStage() {
  /** auto_confirm is on in `setup` and off in `confirming`. */
  const stage = oauthPlatform().stage as OauthPlatform & { confirming: OauthStage }
  before(async () => {
    const { platform, identity, github } = stage
    stage.confirming = await openOauthStage(platform, identity, github, { auto_confirm: false })
  })
  let counted: Awaited<ReturnType<OauthStage['counts']>>
  beforeEach(async () => {
    counted = await stage.setup.counts()
  })

  return {
    stage,
    /** No user, identity or session was created, and the error is in query and fragment. */
    async assertNothing(landing: Landing, code: string, at: OauthStage = stage.setup, before = counted) {
      assert.equal(landing.place, site)
      for (const parameters of [landing.query, landing.fragment]) {
        assert.equal(parameters['error_code'], code, JSON.stringify(parameters))
        assert.ok(parameters['error'] && parameters['error_description'])
        assert.ok(
          !('access_token' in parameters) && !('code' in parameters) && !('provider_token' in parameters),
        )
      }
      assert.deepEqual(await at.counts(), before)
    },
    openid: (name: string, claims: object) =>
      stage.identity.accounts.set(name, { sub: `sub-${name}`, ...claims }),
    verifiedOnGithub: (name: string, email: string, id: unknown) =>
      stage.github.githubAccounts.set(name, {
        id,
        login: name,
        emails: [{ email, primary: true, verified: true }],
      }),
  }
}
