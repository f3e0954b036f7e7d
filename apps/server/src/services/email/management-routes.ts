import type { emailApi } from '@plinth/contract/email.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { EmailService } from './service.ts'

export const emailRoutes = (email: EmailService): Handlers<typeof emailApi, Actor> => ({
  listDefaults: ({ query }) => email.listDefaults(paging(query)),
  readSmtp: ({ params }) => email.readSmtp(params.id),
  saveSmtp: ({ params, body }) => email.saveSmtp(params.id, body),
  sendTest: ({ params, body }) => email.sendTest(params.id, body.to, body.template ?? 'magic_link'),
  listTemplates: ({ params, query }) => email.listTemplates(params.id, paging(query)),
  readTemplate: ({ params }) => email.readTemplate(params.id, params.type),
  saveTemplate: ({ params, body }) => email.saveTemplate(params.id, params.type, body),
  revertTemplate: async ({ params }) => void (await email.revertTemplate(params.id, params.type)),
  listCaught: ({ params, query }) => email.listCaught(params.id, paging(query)),
  readCaught: ({ params }) => email.readCaught(params.id, params.message_id),
})
