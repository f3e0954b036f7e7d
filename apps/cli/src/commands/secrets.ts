import type { Answer, Context } from '../context.ts'
import { fields } from '../print.ts'
import { openProject } from '../project.ts'

export async function rotateJwt(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const { jwt_secret } = await platform.projects.rotateJwtSecret({ params: { id } })
  return {
    data: { project_id: id, jwt_secret },
    text: paint => fields(paint, [['JWT secret', jwt_secret]]),
    hints: ['Every JWT issued so far is invalid. The new secret is shown only now.'],
  }
}

export async function rotateApiKeys(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const { anon_key, service_role_key } = await platform.projects.rotateApiKeys({ params: { id } })
  return {
    data: { project_id: id, anon_key, service_role_key },
    text: paint =>
      fields(paint, [
        ['anon key', anon_key],
        ['service_role key', service_role_key],
      ]),
    hints: ['The old keys are invalid. Configure the new ones in every application.'],
  }
}
