import type { platformApi } from '@plinth/contract/platform.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { PlatformService } from './service.ts'

export const platformRoutes = (platform: PlatformService): Handlers<typeof platformApi, Actor> => ({
  login: ({ body }, _actor, { ip }) => platform.login(body.email, body.password, ip),
  mintToken: ({ body }, actor) => platform.mintToken(actor, body),
  listTokens: ({ query }) => platform.listTokens(paging(query)),
  revokeToken: async ({ params }) => void (await platform.revokeToken(params.token_id)),
})
