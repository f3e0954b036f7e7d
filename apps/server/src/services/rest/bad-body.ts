import { Refusal } from '#src/kernel/errors.ts'

export const badBody = (message: string, hint = '') => new Refusal('PGRST102', message, { hint })
