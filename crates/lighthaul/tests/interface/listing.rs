//! Lines of the list: an item, its fields and variants, its methods, and its traits.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Field, Fields, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait, Path,
    Token, TraitItem, Type,
};

use crate::sources::{Crates, Export, is_public};

/// Returns the lines of an exported item.
pub(crate) fn lines(crates: &Crates, export: &Export) -> Vec<String> {
    let name = &export.name;
    let (mut lines, original) = match &export.item {
        Item::Struct(item) => (of_struct(name, item), &item.ident),
        Item::Enum(item) => (of_enum(name, item), &item.ident),
        Item::Trait(item) => return of_trait(name, item),
        Item::Type(item) => {
            let generics = text(&item.generics);
            return vec![format!("type {name}{generics} = {}", text(&item.ty))];
        }
        Item::Const(item) => return vec![format!("const {name}: {}", text(&item.ty))],
        Item::Fn(item) => return vec![format!("fn {}", signature(&item.sig))],
        other => panic!("{name} is an item of an unknown kind: {}", text(other)),
    };
    let original = original.to_string();
    for file in crates.files(&export.krate) {
        let impls = file.items.iter().filter_map(|item| match item {
            Item::Impl(item) if is_of(&item.self_ty, &original) => Some(item),
            _ => None,
        });
        lines.extend(impls.flat_map(|item| implemented(name, item)));
    }
    lines
}

fn of_struct(name: &str, item: &ItemStruct) -> Vec<String> {
    let (generics, marks) = (text(&item.generics), marks(&item.attrs));
    let private = private(&item.fields);
    let mut lines = vec![format!("struct {name}{generics}{marks}{private}")];
    lines.extend(fields(name, &item.fields));
    lines.extend(derived(name, &item.attrs));
    lines
}

fn of_enum(name: &str, item: &ItemEnum) -> Vec<String> {
    let (generics, marks) = (text(&item.generics), marks(&item.attrs));
    let mut lines = vec![format!("enum {name}{generics}{marks}")];
    for variant in &item.variants {
        let inside = match &variant.fields {
            Fields::Unit => String::new(),
            Fields::Unnamed(fields) => {
                let types = fields.unnamed.iter().map(|field| text(&field.ty));
                format!("({})", types.collect::<Vec<_>>().join(", "))
            }
            Fields::Named(fields) => {
                let named = fields.named.iter().map(named);
                format!(" {{ {} }}", named.collect::<Vec<_>>().join(", "))
            }
        };
        lines.push(format!("variant {name}::{}{inside}", variant.ident));
    }
    lines.extend(derived(name, &item.attrs));
    lines
}

fn of_trait(name: &str, item: &ItemTrait) -> Vec<String> {
    let (generics, bounds) = (text(&item.generics), text(&item.supertraits));
    let colon = if bounds.is_empty() { "" } else { ": " };
    let mut lines = vec![format!("trait {name}{generics}{colon}{bounds}")];
    for item in &item.items {
        lines.push(match item {
            TraitItem::Fn(function) => {
                let is_provided = function.default.is_some();
                let provided = if is_provided { " (provided)" } else { "" };
                format!("fn {name}::{}{provided}", signature(&function.sig))
            }
            TraitItem::Const(item) => {
                format!("const {name}::{}: {}", item.ident, text(&item.ty))
            }
            other => format!("in {name}: {}", text(other)),
        });
    }
    lines
}

/// Returns the lines of a block of methods or of a trait.
fn implemented(name: &str, block: &ItemImpl) -> Vec<String> {
    if let Some((_, path, _)) = &block.trait_ {
        let generics = text(&block.generics);
        return vec![format!(
            "impl{generics} {} for {}",
            text(path),
            text(&block.self_ty)
        )];
    }
    let public = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if is_public(&function.vis) => {
            Some(format!("fn {name}::{}", signature(&function.sig)))
        }
        ImplItem::Const(item) if is_public(&item.vis) => {
            Some(format!("const {name}::{}: {}", item.ident, text(&item.ty)))
        }
        _ => None,
    });
    public.collect()
}

/// Returns true for the type `name`, with or without parameters.
fn is_of(kind: &Type, name: &str) -> bool {
    let Type::Path(path) = kind else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == name)
}

fn fields(name: &str, fields: &Fields) -> Vec<String> {
    let public = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_public(&field.vis));
    let line = |(nth, field): (usize, &Field)| match &field.ident {
        Some(field_name) => format!("field {name}.{field_name}: {}", text(&field.ty)),
        None => format!("field {name}.{nth}: {}", text(&field.ty)),
    };
    public.map(line).collect()
}

fn named(field: &Field) -> String {
    let name = field.ident.as_ref().map(ToString::to_string);
    format!("{}: {}", name.unwrap_or_default(), text(&field.ty))
}

/// Returns a mark for a structure that programs cannot make.
fn private(fields: &Fields) -> &'static str {
    let has = fields.iter().any(|field| !is_public(&field.vis));
    if has { " (private fields)" } else { "" }
}

/// Returns attributes that concern programs.
fn marks(attributes: &[Attribute]) -> String {
    let known = ["non_exhaustive", "must_use", "repr"];
    let found = known.into_iter().filter(|name| {
        attributes
            .iter()
            .any(|attribute| attribute.path().is_ident(name))
    });
    let marks: Vec<String> = found.map(|name| format!(" #[{name}]")).collect();
    marks.concat()
}

/// Returns one line for each derived trait.
fn derived(name: &str, attributes: &[Attribute]) -> Vec<String> {
    let derives = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"));
    let traits = derives.flat_map(|attribute| {
        let list = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        list.unwrap().into_iter()
    });
    traits
        .map(|path| format!("derive {name}: {}", text(&path)))
        .collect()
}

fn signature(signature: &syn::Signature) -> String {
    let text = text(signature);
    text.strip_prefix("fn ").unwrap_or(&text).to_owned()
}

/// Returns source text with the usual spaces.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" >", ">"),
        (" ,", ","),
        (" :", ":"),
        (" ;", ";"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        ("& ", "&"),
        (",)", ")"),
        (", >", ">"),
        ("->(", "-> ("),
        ("-&", "- &"),
        (" ?", "?"),
    ] {
        text = text.replace(from, to);
    }
    // what the rules above have joined
    text.replace("-> >", "->")
        .replace("dyn(", "dyn (")
        .replace("mut(", "mut (")
}
