//! The Connect type of a JSON value, and the value written under it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::json;
use super::super::options::{JsonEmptyArrays, JsonNulls};
use super::tree::Node;
use super::{Rules, plain_text};
use crate::java;

/// A payload with its type.
#[derive(Debug, PartialEq)]
pub(in crate::router) struct Expansion<'a> {
    pub(super) node: Node<'a>,
    pub(super) shape: Shape,
    /// Values that Debezium would lose are in it.
    pub(in crate::router) keeps_more: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::router) enum Shape {
    Boolean,
    Int32,
    Int64,
    Float64,
    String,
    /// Nulls only.
    Bytes,
    /// Of no elements, kept as an array of strings.
    EmptyArray,
    Array(Box<Self>),
    Struct(StructShape),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::router) struct StructShape {
    name: Option<String>,
    optional: bool,
    fields: Vec<(Vec<u8>, Shape)>,
}

/// Debezium finds no schema: the payload stays text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GiveUp;

/// Infers types as Debezium does. It finds out about the document as a whole: giving up anywhere
/// goes before everything else.
pub(super) struct Inference<'r> {
    rules: &'r Rules<'r>,
    /// Debezium would find the schema and then fail to put a value into it.
    conflict: bool,
    keeps_more: bool,
}

/// Two types that no value fits both of.
struct Conflict;

impl<'r> Inference<'r> {
    pub(super) const fn new(rules: &'r Rules<'r>) -> Self {
        Self {
            rules,
            conflict: false,
            keeps_more: false,
        }
    }

    pub(super) const fn is_sound(&self) -> bool {
        !self.conflict
    }

    pub(super) const fn keeps_more(&self) -> bool {
        self.keeps_more
    }

    /// `None`: the value is left out. `path` is the schema's name; arrays in arrays have none.
    pub(super) fn infer(
        &mut self,
        path: Option<&str>,
        node: &Node<'_>,
    ) -> Result<Option<Shape>, GiveUp> {
        Ok(Some(match node {
            Node::Null if self.rules.nulls == JsonNulls::Ignore => return Ok(None),
            Node::Null => Shape::Bytes,
            Node::Bool(_) => Shape::Boolean,
            Node::Int32(_) => Shape::Int32,
            Node::Int64(_) => Shape::Int64,
            Node::Double(_) => Shape::Float64,
            Node::Big => {
                self.conflict = true;
                Shape::Float64
            }
            Node::String(_) => Shape::String,
            Node::Array(elements) if elements.is_empty() => match self.rules.empty_arrays {
                JsonEmptyArrays::Ignore => return Ok(None),
                JsonEmptyArrays::Keep => Shape::EmptyArray,
            },
            Node::Array(elements) => Shape::Array(Box::new(self.elements(path, elements)?)),
            Node::Object(members) => Shape::Struct(self.object(path, members)?),
        }))
    }

    fn object(
        &mut self,
        path: Option<&str>,
        members: &[(Cow<'_, [u8]>, Node<'_>)],
    ) -> Result<StructShape, GiveUp> {
        let mut fields = Vec::with_capacity(members.len());
        for (name, value) in members {
            let member = plain_text(name);
            let path = match path.filter(|path| !path.trim().is_empty()) {
                Some(path) => format!("{path}.{member}"),
                None => member.into_owned(),
            };
            if let Some(shape) = self.infer(Some(&path), value)? {
                // Connect has no field without a name.
                if name.is_empty() {
                    return Err(GiveUp);
                }
                fields.push((name.to_vec(), shape));
            }
        }
        Ok(StructShape {
            name: path.map(str::to_owned),
            optional: true,
            fields,
        })
    }

    /// The type of an array's elements.
    fn elements(&mut self, path: Option<&str>, elements: &[Node<'_>]) -> Result<Shape, GiveUp> {
        let mut typed = elements.iter().filter(|element| **element != Node::Null);
        let Some(sample) = typed.next() else {
            return self.infer(None, &Node::Null)?.ok_or(GiveUp);
        };
        if !typed.all(|element| class(element) == class(sample)) {
            return Err(GiveUp);
        }
        match sample {
            Node::Object(_) => self.objects(path, elements).map(Shape::Struct),
            Node::Array(_) => self.arrays(elements),
            scalar => {
                self.conflict |= elements.contains(&Node::Big);
                self.infer(None, scalar)?.ok_or(GiveUp)
            }
        }
    }

    /// All objects of one array have the members of all, in the order of the text. (Debezium's order
    /// is that of a hash set of schemas, another one in every run.)
    fn objects(
        &mut self,
        path: Option<&str>,
        elements: &[Node<'_>],
    ) -> Result<StructShape, GiveUp> {
        let mut first: Option<StructShape> = None;
        let mut merged: Option<StructShape> = None;
        let mut order: Vec<&[u8]> = Vec::new();
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let objects = elements.iter().filter_map(|element| match element {
            Node::Object(members) => Some(members),
            _ => None,
        });
        for members in objects {
            order.extend(
                members
                    .iter()
                    .map(|(name, _)| &**name)
                    .filter(|name| seen.insert(*name)),
            );
            let shape = self.object(path, members)?;
            match (&first, merged.take()) {
                (None, _) | (_, None) => {
                    merged = Some(shape.clone());
                    first = Some(shape);
                }
                (Some(known), Some(before)) if *known == shape => merged = Some(before),
                (Some(_), Some(before)) => {
                    let mut union = self.union_structs(before, shape);
                    // Debezium forgets the mark when it merges schemas.
                    union.optional = false;
                    merged = Some(union);
                }
            }
        }
        let mut merged = merged.ok_or(GiveUp)?;
        if !merged.optional {
            let places: HashMap<&[u8], usize> = order.iter().copied().zip(0..).collect();
            merged
                .fields
                .sort_by_key(|(name, _)| places.get(&name[..]).copied());
            // A null has no place among objects that must not be null.
            self.conflict |= elements.contains(&Node::Null);
        }
        Ok(merged)
    }

    /// Debezium looks at the first inner array only, and loses what does not fit its type.
    fn arrays(&mut self, elements: &[Node<'_>]) -> Result<Shape, GiveUp> {
        let mut inner = elements.iter().filter(|element| **element != Node::Null);
        let first = inner.next().ok_or(GiveUp)?;
        let sample = self.infer(None, first)?.ok_or(GiveUp)?;
        let mut merged = sample.clone();
        for element in inner {
            match self.infer(None, element) {
                Ok(None) => {}
                Ok(Some(shape)) => match self.union(merged.clone(), shape) {
                    Ok(union) => merged = union,
                    Err(Conflict) => self.conflict = true,
                },
                // Without a value there is nothing to fit: Debezium does not look, and takes it.
                Err(GiveUp) if is_hollow(element) && merged.fits(element) => {}
                Err(GiveUp) => self.conflict = true,
            }
        }
        self.keeps_more |= merged != sample;
        Ok(merged)
    }

    fn union(&mut self, left: Shape, right: Shape) -> Result<Shape, Conflict> {
        match (left, right) {
            (left, right) if left == right => Ok(left),
            (Shape::Bytes, other) | (other, Shape::Bytes) => Ok(other),
            (Shape::EmptyArray, array @ Shape::Array(_))
            | (array @ Shape::Array(_), Shape::EmptyArray) => Ok(array),
            (Shape::Struct(left), Shape::Struct(right)) => {
                self.keeps_more = true;
                Ok(Shape::Struct(self.union_structs(left, right)))
            }
            (Shape::Array(left), Shape::Array(right)) => self
                .union(*left, *right)
                .map(|inner| Shape::Array(Box::new(inner))),
            _ => Err(Conflict),
        }
    }

    fn union_structs(&mut self, mut left: StructShape, right: StructShape) -> StructShape {
        let mut places: HashMap<Vec<u8>, usize> = left
            .fields
            .iter()
            .map(|(name, _)| name.clone())
            .zip(0..)
            .collect();
        for (name, shape) in right.fields {
            let Some(place) = places.get(&name).copied() else {
                places.insert(name.clone(), left.fields.len());
                left.fields.push((name, shape));
                continue;
            };
            let known = &mut left.fields[place].1;
            match self.union(known.clone(), shape) {
                Ok(union) => *known = union,
                Err(Conflict) => self.conflict = true,
            }
        }
        left
    }
}

/// What has to be the same for all elements of an array.
const fn class(node: &Node<'_>) -> u8 {
    match node {
        Node::Null => 0,
        Node::Bool(_) => 1,
        Node::Int32(_) => 2,
        Node::Int64(_) => 3,
        Node::Big | Node::Double(_) => 4,
        Node::String(_) => 5,
        Node::Array(_) => 6,
        Node::Object(_) => 7,
    }
}

/// Nulls, and arrays of nothing else.
fn is_hollow(node: &Node<'_>) -> bool {
    match node {
        Node::Null => true,
        Node::Array(elements) => elements.iter().all(is_hollow),
        _ => false,
    }
}

impl Shape {
    /// Whether Connect would take the value under this type.
    pub(super) fn fits(&self, node: &Node<'_>) -> bool {
        match (self, node) {
            (_, Node::Null)
            | (Self::Boolean, Node::Bool(_))
            | (Self::Int32, Node::Int32(_))
            | (Self::Int64, Node::Int64(_))
            | (Self::Float64, Node::Double(_))
            | (Self::String, Node::String(_)) => true,
            (Self::EmptyArray, Node::Array(elements)) => elements.is_empty(),
            (Self::Array(inner), Node::Array(elements)) => {
                elements.iter().all(|element| inner.fits(element))
            }
            (Self::Struct(shape), Node::Object(members)) => {
                let values = Members::new(members);
                shape
                    .fields
                    .iter()
                    .all(|(name, field)| values.get(name).is_none_or(|value| field.fits(value)))
            }
            _ => false,
        }
    }

    const fn type_name(&self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float64 => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::EmptyArray | Self::Array(_) => "array",
            Self::Struct(_) => "struct",
        }
    }

    fn write_schema(&self, field: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(self.type_name().as_bytes());
        out.push(b'"');
        let (mut optional, mut name) = (true, None);
        match self {
            Self::EmptyArray => {
                out.extend_from_slice(b",\"items\":{\"type\":\"string\",\"optional\":true}");
            }
            Self::Array(inner) => {
                out.extend_from_slice(b",\"items\":");
                inner.write_schema(None, out);
            }
            Self::Struct(shape) => {
                out.extend_from_slice(b",\"fields\":[");
                for (index, (name, shape)) in shape.fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    shape.write_schema(Some(name), out);
                }
                out.push(b']');
                (optional, name) = (shape.optional, shape.name.as_deref());
            }
            _ => {}
        }
        json::write_traits(optional, name, out);
        if let Some(field) = field {
            out.extend_from_slice(b",\"field\":\"");
            out.extend_from_slice(field);
            out.push(b'"');
        }
        out.push(b'}');
    }
}

impl Expansion<'_> {
    pub(in crate::router) fn write_json(&self, out: &mut Vec<u8>) {
        write_json(&self.node, &self.shape, out);
    }

    /// The schema, as the member `field` of a struct's where there is one.
    pub(in crate::router) fn write_schema(&self, field: Option<&str>, out: &mut Vec<u8>) {
        self.shape.write_schema(field.map(str::as_bytes), out);
    }

    /// `Struct{a=1,b=[x, y]}`
    pub(in crate::router) fn write_java(&self, out: &mut String) {
        write_java(&self.node, &self.shape, out);
    }
}

fn write_json(node: &Node<'_>, shape: &Shape, out: &mut Vec<u8>) {
    match (node, shape) {
        (Node::Object(members), Shape::Struct(shape)) => {
            let values = Members::new(members);
            out.push(b'{');
            for (index, (name, field)) in shape.fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.push(b'"');
                out.extend_from_slice(name);
                out.extend_from_slice(b"\":");
                write_json(values.get(name).unwrap_or(&Node::Null), field, out);
            }
            out.push(b'}');
        }
        (Node::Array(elements), shape) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                match shape {
                    Shape::Array(inner) => write_json(element, inner, out),
                    other => write_json(element, other, out),
                }
            }
            out.push(b']');
        }
        (Node::String(text), _) => {
            out.push(b'"');
            out.extend_from_slice(text);
            out.push(b'"');
        }
        (Node::Bool(value), _) => {
            out.extend_from_slice(if *value { b"true" } else { b"false" });
        }
        (Node::Int32(value), _) => out.extend_from_slice(value.to_string().as_bytes()),
        (Node::Int64(value), _) => out.extend_from_slice(value.to_string().as_bytes()),
        (Node::Double(value), _) => json::write_floating(&java::double(*value), out),
        _ => out.extend_from_slice(b"null"),
    }
}

fn write_java(node: &Node<'_>, shape: &Shape, out: &mut String) {
    match (node, shape) {
        (Node::Object(members), Shape::Struct(shape)) => {
            let values = Members::new(members);
            out.push_str("Struct{");
            let mut first = true;
            for (name, field) in &shape.fields {
                let Some(value) = values.get(name).filter(|value| **value != Node::Null) else {
                    continue;
                };
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                out.push_str(&plain_text(name));
                out.push('=');
                write_java(value, field, out);
            }
            out.push('}');
        }
        (Node::Array(elements), shape) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                match shape {
                    Shape::Array(inner) => write_java(element, inner, out),
                    other => write_java(element, other, out),
                }
            }
            out.push(']');
        }
        (Node::String(text), _) => out.push_str(&plain_text(text)),
        (Node::Bool(value), _) => out.push_str(if *value { "true" } else { "false" }),
        (Node::Int32(value), _) => out.push_str(&value.to_string()),
        (Node::Int64(value), _) => out.push_str(&value.to_string()),
        (Node::Double(value), _) => out.push_str(&java::double(*value)),
        _ => out.push_str("null"),
    }
}

/// An object's values by name; few of them are looked through one by one.
struct Members<'n, 'a> {
    members: &'n [(Cow<'a, [u8]>, Node<'a>)],
    places: Option<HashMap<&'n [u8], usize>>,
}

impl<'n, 'a> Members<'n, 'a> {
    const FEW: usize = 16;

    fn new(members: &'n [(Cow<'a, [u8]>, Node<'a>)]) -> Self {
        let places = (members.len() > Self::FEW)
            .then(|| members.iter().map(|(name, _)| &**name).zip(0..).collect());
        Self { members, places }
    }

    fn get(&self, name: &[u8]) -> Option<&'n Node<'a>> {
        match &self.places {
            Some(places) => places.get(name).map(|place| &self.members[*place].1),
            None => self
                .members
                .iter()
                .find(|(known, _)| **known == *name)
                .map(|(_, value)| value),
        }
    }
}
